import com.google.gson.ToNumberPolicy;
import control.ApiClient;
import control.JSON;
import control.api.UsersApi;
import control.model.NewUser;
import java.util.List;
import java.util.Map;
import java.util.TreeMap;

/** Creates a user of the mock with attributes and reads it back, with the generated client: Users MANAGEMENT_URL */
public final class Users {
  public static void main(String[] arguments) throws Exception {
    // Otherwise the number of an attribute is read as a double.
    var numbers = JSON.getGson().newBuilder().setObjectToNumberStrategy(ToNumberPolicy.LONG_OR_DOUBLE);
    JSON.setGson(numbers.create());
    var users = new UsersApi(new ApiClient().setBasePath(arguments[0]));
    var carol = new NewUser().email("carol@example.test").password("carol-pass");
    carol.setAttributes(Map.of(
        "address", Map.of("country", "PT"), "department", "sales", "level", 7, "staff", true,
        "teams", List.of("blue", "green")));
    // The last arguments are the headers Mock-Namespace and X-Request-Id.
    users.createUser(carol, null, null);
    var attributes = new TreeMap<String, Object>(users.showUser("carol@example.test", null, null).getAttributes());
    System.out.println(JSON.getGson().toJson(attributes));
  }
}
